"""Python functions that users call: stress, worst_case, attack, check, run, plan and demo."""
