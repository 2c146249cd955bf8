"""From a workload to ranked plans and single estimates, and the words that explain them."""
