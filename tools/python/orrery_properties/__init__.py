"""Random serving configs, and what must hold of every one of them (tools/properties)."""
