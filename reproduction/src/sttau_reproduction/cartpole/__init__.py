"""Reinforcement learning: CartPole with and without velocities."""
