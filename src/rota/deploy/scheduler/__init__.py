"""The scheduler of a deployment: one thread owns all state, and everything that happens is an event in a journal.

Follow a request: `server/` translates a call and posts it to the `inbox`; the `control_loop` takes it, `requests` turns
it into events, the `recorder` applies them to the `registry` and commits them to the `journal`; `reconciliation`
compares what runs with the placement in force; the `order_board` publishes what every agent should run; then the caller
hears the answer.

Follow a report: `agent_reports` makes events of what agents say, `failure_detection` of what they do not say.

Follow a round: `world` waits for the end of the round, `round_report` tells the engine what happened, the engine
decides, `reconciliation` starts and stops attempts, `leases` says until when they may run.
"""
