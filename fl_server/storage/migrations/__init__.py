"""How the tables of older servers become those of this one, step by step, by Alembic."""
