// memories
