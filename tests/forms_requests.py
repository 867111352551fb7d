"""One conversation in the four forms: a task, a call of a tool, what it gave."""

from __future__ import annotations

from typing import Any

ANTHROPIC: dict[str, Any] = {
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "Fix it"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"b": 1, "a": "x"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "out"}]},
                {"type": "text", "text": "go on"},
            ],
        },
    ],
}
CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Fix it"}]},
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [{"id": "t1", "function": {"name": "Bash", "arguments": '{"b": 1,  "a": "x"}'}}],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "out"},
    ]
}
RESPONSES: dict[str, Any] = {
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Fix it"}]},
        {"type": "reasoning", "encrypted_content": "zzz"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
        {"type": "function_call", "call_id": "t1", "name": "Bash", "arguments": '{"a":"x","b":1}'},
        {"type": "function_call_output", "call_id": "t1", "output": "out"},
    ],
}
GEMINI: dict[str, Any] = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"parts": [{"text": "Fix it"}]},
        {
            "role": "model",
            "parts": [
                {"text": "hm", "thought": True},
                {"text": "Looking."},
                {"functionCall": {"name": "Bash", "args": {"a": "x", "b": 1}}},
            ],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "Bash", "response": {"output": "out"}}}]},
    ],
}
