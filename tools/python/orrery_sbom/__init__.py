"""What a build is made of, with licences: an SPDX 2.3 document from what is linked and from tools/packages.txt (tools/sbom)."""
