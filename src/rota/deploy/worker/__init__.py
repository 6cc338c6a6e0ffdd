"""What an agent does on its own server. No numpy, no network library: an agent stays small."""
