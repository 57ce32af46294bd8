"""A report as one page of HTML that loads nothing and runs nothing."""
