"""What devices receive in ten models, counted in our partitioned programs and in those that JAX's partitioner makes."""
