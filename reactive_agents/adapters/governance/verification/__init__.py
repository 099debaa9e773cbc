"""Verification: is an answer supported by what its run saw?"""
