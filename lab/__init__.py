"""The lab: small models trained from scratch, and their tasks."""
