"""Whole applications, written as their authors would write them, under quire and under JAX."""
