"""The embedded Sigstore instance: certificate authority, timestamp authority and log of one host, without a network."""
