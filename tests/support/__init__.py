"""Parts that several tests share: real services on loopback addresses, scripted parts, counters."""
