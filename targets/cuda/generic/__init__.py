"""Operators as PTX, one family a file: one thread for each element, or a team of threads for each reduction."""
