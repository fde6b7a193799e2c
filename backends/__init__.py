"""quire.backends"""
