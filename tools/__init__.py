"""quire.tools"""
