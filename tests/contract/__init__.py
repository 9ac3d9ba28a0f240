"""What every backend, and every stack of wrappers, must do alike."""
