REM GPU training costs in LibreOffice Calc: =GPU_COST(...), =GPU_HOURS(...), =GPU_FITS(...), =GPU_VALUE(...)
REM
REM Tools > Macros > Edit Macros, paste into a module of "My Macros > Standard", and start `estimator serve`.
REM Another server: set the environment variable ESTIMATOR_URL, or change the line below.

Option Explicit
Private Const DEFAULT_SERVER As String = "http://127.0.0.1:8000"
Private asked() As String
Private said() As String
Private known As Long
Private last As Double

REM Dollars (median) of the cheapest plan.
REM model: "llama3-8b"; method: "lora"; data: "50M" (tokens), "1281167 images"; gpu: "H100:8"; options: "epochs=3; market=spot"
Function GPU_COST(model, Optional method, Optional data, Optional gpu, Optional options)
    GPU_COST = Asked_(Query_("cost_usd", model, Given_(method), Given_(data), Given_(gpu), Given_(options)))
End Function

REM Hours on the clock (median) of the cheapest plan.
Function GPU_HOURS(model, Optional method, Optional data, Optional gpu, Optional options)
    GPU_HOURS = Asked_(Query_("hours", model, Given_(method), Given_(data), Given_(gpu), Given_(options)))
End Function

REM Does it fit in memory: yes, tight, no or unknown.
Function GPU_FITS(model, Optional method, Optional data, Optional gpu, Optional options)
    GPU_FITS = Asked_(Query_("fits", model, Given_(method), Given_(data), Given_(gpu), Given_(options)))
End Function

REM Any other figure by its name: "usd_per_hour", "instance_type".
Function GPU_VALUE(value, model, Optional method, Optional data, Optional gpu, Optional options)
    GPU_VALUE = Asked_(Query_(CStr(value), model, Given_(method), Given_(data), Given_(gpu), Given_(options)))
End Function

Private Function Given_(Optional part) As String
    Given_ = ""
    If IsMissing(part) Then Exit Function
    If IsNull(part) Or IsEmpty(part) Then Exit Function
    Given_ = Trim(CStr(part))
End Function

Private Function Query_(value As String, model, method As String, data As String, gpu As String, options As String) As String
    Dim query As String, key As String, pair As String, pairs, n As Long, place As Long
    Query_ = ""
    If Given_(model) = "" Then Exit Function
    query = "value=" & Escaped_(value) & "&model=" & Escaped_(Given_(model))
    If method <> "" Then query = query & "&method=" & Escaped_(method)
    If gpu <> "" Then query = query & "&gpu=" & Escaped_(gpu)
    If data <> "" Then
        key = "tokens"
        For Each pair In Array("tokens", "samples", "images")
            If Len(data) > Len(pair) And LCase(Right(data, Len(pair))) = pair Then
                key = pair
                data = Trim(Left(data, Len(data) - Len(pair)))
            End If
        Next pair
        query = query & "&" & key & "=" & Escaped_(data)
    End If
    pairs = Split(options, ";")
    For n = LBound(pairs) To UBound(pairs)
        pair = pairs(n)
        place = InStr(pair, "=")
        If place > 1 Then query = query & "&" & Escaped_(Trim(Left(pair, place - 1))) & "=" & Escaped_(Trim(Mid(pair, place + 1)))
    Next n
    Query_ = query
End Function

REM The answer as a number where it is one; each question is asked once a minute.
Private Function Asked_(query As String)
    Dim n As Long, answer As String
    Asked_ = ""
    If query = "" Then Exit Function
    If CDbl(Now()) - last > 1 / 1440 Then
        known = 0
        last = CDbl(Now())
    End If
    answer = ""
    For n = 0 To known - 1
        If asked(n) = query Then answer = said(n)
    Next n
    If answer = "" Then
        answer = Fetched_(query)
        If Left(answer, 1) <> "#" Then
            ReDim Preserve asked(known)
            ReDim Preserve said(known)
            asked(known) = query
            said(known) = answer
            known = known + 1
        End If
    End If
    Asked_ = answer
    If IsFigure_(answer) Then Asked_ = Val(answer)
End Function

Private Function Fetched_(query As String) As String
    Dim files, stream, server As String, text As String
    On Error GoTo Unreachable
    server = Environ("ESTIMATOR_URL")
    If server = "" Then server = DEFAULT_SERVER
    files = CreateUnoService("com.sun.star.ucb.SimpleFileAccess")
    stream = CreateUnoService("com.sun.star.io.TextInputStream")
    stream.setInputStream(files.openFileRead(server & "/v1/cell?" & query))
    stream.setEncoding("UTF-8")
    text = ""
    Do While Not stream.isEOF()
        text = text & stream.readLine()
    Loop
    stream.closeInput()
    Fetched_ = Trim(text)
    Exit Function
Unreachable:
    Fetched_ = "#ERROR: the server " & server & " cannot be reached"
End Function

Private Function IsFigure_(text As String) As Boolean
    Dim n As Long
    IsFigure_ = Len(text) > 0
    For n = 1 To Len(text)
        If InStr("0123456789.-", Mid(text, n, 1)) = 0 Then IsFigure_ = False
    Next n
    If InStr(2, text, "-") > 0 Then IsFigure_ = False
End Function

REM Characters as UTF-8 with percent signs, for a query.
Private Function Escaped_(text As String) As String
    Dim n As Long, code As Long, out As String
    out = ""
    For n = 1 To Len(text)
        code = Asc(Mid(text, n, 1))
        If code < 0 Then code = code + 65536
        If InStr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~", Mid(text, n, 1)) > 0 Then
            out = out & Mid(text, n, 1)
        ElseIf code < 128 Then
            out = out & "%" & Right("0" & Hex(code), 2)
        ElseIf code < 2048 Then
            out = out & "%" & Hex(192 + code \ 64) & "%" & Hex(128 + code Mod 64)
        Else
            out = out & "%" & Hex(224 + code \ 4096) & "%" & Hex(128 + (code \ 64) Mod 64) & "%" & Hex(128 + code Mod 64)
        End If
    Next n
    Escaped_ = out
End Function
