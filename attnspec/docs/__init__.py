"""The invariants as a static site: `attnspec docs DIR`.

What a page says comes from the records: `spec.CLAIMS`, the definitions, `oracle.LAWS`, the
conventions and the catalogue of wrong implementations. Nothing about them is written here.
"""
