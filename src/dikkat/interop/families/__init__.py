"""Families of models, each a key table and a settings table; what stands here is found."""
