"""What must hold whatever happens: damage, sudden death, crowds and long use."""
