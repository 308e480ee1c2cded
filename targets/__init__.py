"""Target families: one folder each, reached through `targets.base`."""
