"""The brain: workload -> work -> layouts -> memory -> step time -> run time -> dollars -> ranked plans."""
