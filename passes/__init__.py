"""quire.passes"""
