"""What several tests share: real services on loopback addresses."""
