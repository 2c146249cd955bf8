"""What can happen on the way: interruptions, failures, waiting; and what they do to hours and dollars."""
