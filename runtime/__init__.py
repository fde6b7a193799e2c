"""quire.runtime"""
