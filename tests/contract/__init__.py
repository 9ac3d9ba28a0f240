"""What every backend, and every stack of a task, must do alike."""
