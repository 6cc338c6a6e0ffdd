"""`rota serve --notify`: tells others what happened, by a webhook or a command, at least once and in order."""
