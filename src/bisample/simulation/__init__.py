"""People who do not exist, and mechanisms that only simulate. Nothing here protects anybody."""
