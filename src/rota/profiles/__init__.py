"""How fast jobs go: throughput catalogues, built in or from a file."""

from rota.profiles.catalogue import Catalogue, ProfileRow
from rota.profiles.loading import TRIED, load, names
from rota.profiles.templates import Template, templates

__all__ = ["TRIED", "Catalogue", "ProfileRow", "Template", "load", "names", "templates"]
