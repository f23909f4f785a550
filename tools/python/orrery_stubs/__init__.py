"""Stubs of the package orrery, made from the declarations of parameters: `python -m orrery_stubs FOLDER`."""
