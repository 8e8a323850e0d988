"""What a task asks of devices beyond plain training, and how what they send is read again."""
