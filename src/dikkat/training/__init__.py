"""Training: objective, optimizer, schedule, state, budget and loop."""
