"""What both sides agree on, frozen and public: no answer, no randomness, no builder."""
