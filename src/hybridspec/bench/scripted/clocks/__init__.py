"""Where a scripted round's time goes: between rounds, by launcher, by component, at the start."""
