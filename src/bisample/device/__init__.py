"""The respondent's side: where answers become codes. Nothing here knows how codes are read."""
