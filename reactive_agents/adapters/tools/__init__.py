"""Tools: functions, built-in tools, MCP servers, and the services that run them.

Why there is one path for all: ``execute`` of a tool service is the only place where a call becomes an
effect, so validation, approval, time and the form of the result are decided there for every kind of tool.
``service`` runs functions, ``mcp`` the tools of servers, ``combined`` makes one service of several. Models
choose arguments, and pages and servers influence models: paths stay in the workspace, addresses are public,
programs have no shell.
"""
