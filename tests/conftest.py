"""Settings for the whole suite. Its place also makes `import builders` work from every folder of tests."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "rota", derandomize=True, deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("rota")
