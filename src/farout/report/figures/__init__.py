"""Drawing of figures: one module per kind of figure in `farout.report.content`, and the style they share."""
