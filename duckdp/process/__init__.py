"""What a process holds of the machine and how that ends: forks, temporary folders, statements."""
