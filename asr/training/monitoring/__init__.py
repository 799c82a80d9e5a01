"""What a run reports: progress, TensorBoard, callbacks, signs of trouble."""
