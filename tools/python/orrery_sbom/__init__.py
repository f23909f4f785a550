"""What a build is made of, with licences: an SPDX document of what is linked and of tools/packages.txt (tools/sbom)."""
