"""What jobscripts/scaling is made of."""
