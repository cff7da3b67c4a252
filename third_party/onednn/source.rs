// Empty: cargo wants a target beside the dependency that it pins.
