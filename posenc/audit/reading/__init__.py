"""How `posenc.audit.config` reads a configuration: fields, rotations, kinds of layers, memory, contradictions.

Standard library only, so that a configuration can be read where neither torch nor transformers is installed.
"""
