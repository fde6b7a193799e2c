"""`python -m quire.tools.replay`: what two commits make of the same programs, compared up to names.

Nothing is imported here: the processes that lower import this package before they know which quire is theirs.
"""
