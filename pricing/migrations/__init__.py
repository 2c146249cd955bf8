"""How does the schema of the database move forward? Alembic's revisions, the same for SQLite and PostgreSQL.

Revisions only add: an older program goes on reading and writing while the new ones roll out. One that could not be
lived with would also raise `schema_version`, at which older programs stop with a message.
"""
