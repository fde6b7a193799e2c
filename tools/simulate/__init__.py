"""How long a step of a partitioned program takes on machines that are described, not there: from 1 to thousands of devices."""
