"""Test kit for apps that use the package, and for the package itself."""
