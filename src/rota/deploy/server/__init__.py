"""The gRPC side of the scheduler: handlers that translate, post to the owner of the state, and translate back."""
