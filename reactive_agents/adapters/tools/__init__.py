"""Tools: functions, built-in tools, MCP servers, and the services that run them.

``execute`` of a tool service is the only place where a call takes effect, so validation, approval, time
limits and the form of results are decided there for every kind of tool. ``service`` runs functions, ``mcp``
the tools of servers, ``combined`` merges several services into one. Models choose arguments, and pages and
servers influence models, so paths stay in the workspace, addresses are public, and programs run without a
shell.
"""
