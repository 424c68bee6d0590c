"""Translators of CTranslate2 and Argos, read and written without either."""
